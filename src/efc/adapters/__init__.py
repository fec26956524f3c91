"""Other people's data and models, as ours, and ours as theirs. Each file needs what it is named after, and only that.

| file | what it takes or gives |
|---|---|
| `arrays` | arrays with labels of any kind -> ``Dataset``; a ``Dataset`` -> a file for ``--dataset npz:FILE`` |
| `frames` | pandas frames; ARFF, Parquet and CSV files -> ``Dataset`` |
| `hugging_face` | ``datasets`` -> ``Dataset`` |
| `torch_data` | torch datasets and loaders, by a frozen network if you like -> ``Dataset`` |
| `backbone` | a frozen network with an ``EFCHead``, one output per label |
| `avalanche` | Avalanche's benchmarks -> ``Stream``; our learners as its strategy |
| `mammoth` | our learners as a model of Mammoth |
| `onnx` | the forward pass of a trained classifier, for any runtime |
"""
