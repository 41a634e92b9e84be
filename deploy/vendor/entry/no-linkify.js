// The parser makes one of these and never asks it: bare addresses stay text. Saves 9 KB.
export class LinkifyIt {}
