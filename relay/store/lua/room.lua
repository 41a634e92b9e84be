-- Nothing, by a script that may write: it is refused whenever create would be. PROTOCOL 3.6
-- reply 1
return 1
