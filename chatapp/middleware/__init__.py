"""What stands around every request: Django's middleware on the loop, and the threads behind it."""
