"""Plants a bug: copies a source file with one passage replaced.

usage: plant.py SOURCE PLANT OUTPUT, where PLANT holds the passage, a line of =======, and its
replacement. The passage must occur exactly once, so that a plant cannot outlive its code.
"""

import sys


def main(source_path, plant_path, output_path):
    with open(source_path, encoding="utf-8") as file:
        source = file.read()
    with open(plant_path, encoding="utf-8") as file:
        healthy, planted = file.read().split("=======\n")
    if source.count(healthy) != 1:
        sys.exit(f"{plant_path}: its passage occurs {source.count(healthy)} times in {source_path}")
    with open(output_path, "w", encoding="utf-8") as file:
        file.write(source.replace(healthy, planted))


if __name__ == "__main__":
    main(*sys.argv[1:])
