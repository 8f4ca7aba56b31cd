"""What the tests share: a Messages API of our own, and the rules that every request must keep."""
