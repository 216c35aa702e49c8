"""The command line. Only this package prints; its modules import torch inside functions, so that help is instant."""
