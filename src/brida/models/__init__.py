"""What answers a request: the Messages API, the embedded model, the scripted one of tests."""
