"""What people and models read: catalogues in three languages, and text made safe for a terminal."""
