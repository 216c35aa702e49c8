"""`python -m bertworks` is `bertworks`."""

from bertworks.cli.main import run

if __name__ == "__main__":
    run()
