"""`headwater bench tree`: bytes on links and processor time of nodes."""
