import sys

n = int(sys.argv[1])
for i in range(n):
    print(i * i)
