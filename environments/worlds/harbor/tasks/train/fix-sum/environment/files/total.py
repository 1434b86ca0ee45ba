import sys

numbers = [int(line) for line in sys.stdin]
total = 0
for i in range(len(numbers) - 1):
    total += numbers[i]
print(total)
