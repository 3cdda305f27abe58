from pulpsim.cli import main

main()
