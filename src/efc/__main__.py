from efc.cli import main

main()
