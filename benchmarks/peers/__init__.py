"""Other libraries, doing in processes of their own what is measured beside them."""
