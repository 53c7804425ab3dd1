"""`python -m preop` is `preop`."""

from preop.cli import main

if __name__ == "__main__":
    main()
