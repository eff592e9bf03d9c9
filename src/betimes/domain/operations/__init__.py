"""What operators did to many things at once: on record, with who, why and to what."""
