"""XCV, CORE-V as of version 1: CV32E40P's own instructions, an extension a file."""
