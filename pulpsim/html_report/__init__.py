"""pulpsim report: the pictures of one run as a page that a browser shows without any network."""
