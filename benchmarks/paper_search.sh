#!/usr/bin/env bash
# Finds the presets of one column of `efc bench paper`: 48 settings for every method, head and scenario, the best five again on
# five further seeds. Stopped, it goes on where it was when given again.
#
#     bash benchmarks/paper_search.sh mnist --dataset mnist
#     bash benchmarks/paper_search.sh cifar10-resnet18 --dataset cifar10 --encoder resnet18
#     bash benchmarks/paper_search.sh tiny-imagenet-resnet18 --dataset npz:tinyimagenet_resnet18.npz --device cuda
#
# The file to put into src/efc/presets/ is results/search/COLUMN.yaml. PART=N runs only the Nth of the searches below (from 1 on), so that
# several may run side by side, each in a folder of its own.
set -euo pipefail
column=$1
shift
case $column in
  mnist) network="--hidden 100,100 --epochs 10" ;;
  cifar10-*) network="--hidden 100 --epochs 10" ;;
  tiny-imagenet-*) network="--hidden 1000 --epochs 5 --set tasks=10 --set classes_per_task=20" ;;
  *) echo "no such column: $column" >&2; exit 2 ;;
esac
part=0
search() {
  part=$((part + 1))
  [ "${PART:-$part}" = "$part" ] || return 0
  # shellcheck disable=SC2086
  ${PYTHON:-python} -m efc sweep --sampler narrowing --trials 48 --seeds 2 --finalists 5 --final-seeds 5 --set batch_size=256 $network \
    --out "results/search/$column" --preset "results/search/$column.yaml" "${data[@]}" "$@"
}
data=("$@")
class=(--scenario class --head least_squares)
heads=(--head least_squares,analytic)
for scenario in class task; do
  for method in efc ewc online_ewc si mas sgd frozen derpp; do
    search --method "$method" --scenario "$scenario" "${heads[@]}"
  done
  search --method efc --save-as efc-anchor --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search head_beta=0.1:1e3 \
    --search anchor=1e-3:1e5 --search preservation=running_ewc --scenario "$scenario" "${heads[@]}"
  search --method analytic --head analytic --scenario "$scenario"
  search --method joint --head random --scenario "$scenario" --search lr=1e-6:1e-1 --trials 12 --finalists 2
done
# What was tried to lift EFC, and the penalties with the head's strength apart, as EFC has it.
search --method efc --save-as efc-mas --search lr=1e-6:1e-2 --search beta=1e-6:1e1 --search head_beta=0.1:1e3 \
  --search anchor=1e-6:1e1 --search preservation=mas "${class[@]}"
search --method efc --save-as efc-additive --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search head_beta=0.1:1e3 \
  --search anchor=1e-3:1e5 --search preservation=running_ewc --search form=additive "${class[@]}"
search --method efc --save-as efc-additive-mas --search lr=1e-6:1e-2 --search beta=1e-6:1e1 --search head_beta=0.1:1e3 \
  --search anchor=1e-6:1e1 --search preservation=mas --search form=additive "${class[@]}"
search --method ewc --save-as ewc-head --search lr=1e-6:1e-2 --search strength=1e-1:1e9 --search head_strength=0.1:1e3 "${class[@]}"
search --method mas --save-as mas-head --search lr=1e-6:1e-2 --search strength=1e-4:1e6 --search head_strength=0.1:1e3 "${class[@]}"
# Heads whose moments follow the features.
search --method ewc,mas,sgd --scenario class --head compensated
search --method efc --search lr=1e-6:1e-2 --search beta=1e-5:1e3 --search head_beta=0.1:1e3 --search normalise=none,neuron \
  --scenario class --head compensated
search --method efc --save-as efc-additive --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search head_beta=0.1:1e3 \
  --search anchor=1e-3:1e5 --search preservation=running_ewc --search form=additive --scenario class --head compensated
search --method ewc,mas,sgd --scenario class --head input_compensated
search --method efc --search lr=1e-6:1e-2 --search beta=1e-5:1e3 --search head_beta=0.1:1e3 --search normalise=none,neuron \
  --scenario class --head input_compensated
