"""The paper's theory, put to the test: `efc theory`. One file per experiment, each with its claims and its figure."""
