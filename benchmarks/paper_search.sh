#!/usr/bin/env bash
# Finds the presets of one column of `efc bench paper`: 48 settings for every method, head and scenario, the best five again on
# five further seeds. Stopped, it goes on where it was when given again.
#
#     bash benchmarks/paper_search.sh mnist --dataset mnist
#     bash benchmarks/paper_search.sh cifar10-resnet18 --dataset cifar10 --encoder resnet18
#     bash benchmarks/paper_search.sh tiny-imagenet-resnet18 --dataset npz:tinyimagenet_resnet18.npz --device cuda
#
# The file to put into src/efc/presets/ is results/search/COLUMN.yaml.
set -euo pipefail
column=$1
shift
case $column in
  mnist) network="--hidden 100,100 --epochs 10" ;;
  cifar10-*) network="--hidden 100 --epochs 10" ;;
  tiny-imagenet-*) network="--hidden 1000 --epochs 5 --set tasks=10 --set classes_per_task=20" ;;
  *) echo "no such column: $column" >&2; exit 2 ;;
esac
search() {
  # shellcheck disable=SC2086
  python -m efc sweep --sampler narrowing --trials 48 --seeds 2 --finalists 5 --final-seeds 5 --set batch_size=256 $network \
    --out "results/search/$column" --preset "results/search/$column.yaml" "${data[@]}" "$@"
}
data=("$@")
both=(--scenario class,task --head least_squares,analytic)
search --method efc,ewc,online_ewc,si,mas,sgd,frozen "${both[@]}"
search --method efc --save-as efc-anchor --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search anchor=1e-3:1e5 \
  --search preservation=running_ewc,mas,si "${both[@]}"
search --method derpp "${both[@]}"
search --method ewc,mas,sgd --scenario class --head compensated
search --method efc --search lr=1e-6:1e-2 --search beta=1e-5:1e3 --search head_beta=0.1:100 --search normalise=none,neuron \
  --scenario class --head compensated
search --method efc --save-as efc-mas --search lr=1e-6:1e-2 --search beta=1e-6:1e1 --search head_beta=0.1:100 \
  --search anchor=1e-6:1e1 --search preservation=mas --scenario class --head least_squares
search --method analytic --head analytic --scenario class,task
search --method joint --head random --scenario class,task --trials 12 --finalists 2
