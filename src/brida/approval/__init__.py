"""Who is asked before something serious happens, and how."""
