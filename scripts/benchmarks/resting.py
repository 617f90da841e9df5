"""x"""
NAMES: list[str] = []
