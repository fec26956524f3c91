#!/usr/bin/env bash
# Finds the presets of one column of `efc bench paper`: 48 settings for every method, head and scenario, the best five again on
# five further seeds. Stopped, it goes on where it was when given again.
#
#     bash benchmarks/paper_search.sh mnist --dataset mnist
#     bash benchmarks/paper_search.sh cifar10-resnet18 --dataset cifar10 --encoder resnet18
#     bash benchmarks/paper_search.sh tiny-imagenet-resnet18 --dataset npz:tinyimagenet_resnet18.npz --device cuda
#
# The file to put into src/efc/presets/ is results/search/COLUMN.yaml. PART=N runs only the Nth of the searches below (from 1 on; PART=0 counts
# them), with RESULTS=FOLDER into a folder of its own, so that several may run side by side. The searches of the second half came with
# remembered activity; their rates go from 1e-5 to 1e-1, because the best ones with it are a hundred times those without. ONLY=before,
# remembering or rivals runs one of the three groups.
set -euo pipefail
column=$1
shift
case $column in
  digits) network="--hidden 100,100 --epochs 20 --set batch_size=32" ;;
  mnist) network="--hidden 100,100 --epochs 10" ;;
  mnist-wide) network="--hidden 1000 --epochs 10" ;;
  cifar10-resnet18-wide) network="--hidden 2000 --epochs 10 --set activation=softplus" ;;
  cifar10-*) network="--hidden 100 --epochs 10" ;;
  tiny-imagenet-resnet18-wide)
    network="--hidden 3000 --epochs 5 --set tasks=10 --set classes_per_task=20 --set activation=softplus" ;;
  tiny-imagenet-*) network="--hidden 1000 --epochs 5 --set tasks=10 --set classes_per_task=20" ;;
  *) echo "no such column: $column" >&2; exit 2 ;;
esac
part=0
search() {
  part=$((part + 1))
  [ "${PART:-$part}" = "$part" ] || return 0
  local out=${RESULTS:-results/search}
  # shellcheck disable=SC2086
  ${PYTHON:-python} -m efc sweep --sampler narrowing --trials 48 --seeds 2 --finalists 5 --final-seeds 5 --set batch_size=256 $network \
    --out "$out/$column" --preset "$out/$column.yaml" "${data[@]}" "$@"
}
data=("$@")
class=(--scenario class --head least_squares)
heads=(--head least_squares,analytic)
rate=(--search lr=1e-5:1e-1)
pull=("${rate[@]}" --search pull=1e-3:1e1)
gamma=("${pull[@]}" --search beta=1e-5:1e1)
both=("${pull[@]}" --search strength=1e-1:1e9)

before() { # what was searched before activity was remembered
for scenario in class task; do
  for method in efc-paper ewc online_ewc si mas sgd frozen derpp; do
    search --method "$method" --scenario "$scenario" "${heads[@]}"
  done
  search --method efc-paper --save-as efc-anchor --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search head_beta=0.1:1e3 \
    --search anchor=1e-3:1e5 --search preservation=running_ewc --scenario "$scenario" "${heads[@]}"
  search --method analytic --head analytic --scenario "$scenario"
  search --method joint --head random --scenario "$scenario" --search lr=1e-6:1e-1 --trials 12 --finalists 2
done
# What was tried to lift the paper's EFC, and the penalties with the head's strength apart, as EFC has it.
search --method efc-paper --save-as efc-mas --search lr=1e-6:1e-2 --search beta=1e-6:1e1 --search head_beta=0.1:1e3 \
  --search anchor=1e-6:1e1 --search preservation=mas "${class[@]}"
search --method efc-paper --save-as efc-additive --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search head_beta=0.1:1e3 \
  --search anchor=1e-3:1e5 --search preservation=running_ewc --search form=additive "${class[@]}"
search --method efc-paper --save-as efc-additive-mas --search lr=1e-6:1e-2 --search beta=1e-6:1e1 --search head_beta=0.1:1e3 \
  --search anchor=1e-6:1e1 --search preservation=mas --search form=additive "${class[@]}"
search --method ewc --save-as ewc-head --search lr=1e-6:1e-2 --search strength=1e-1:1e9 --search head_strength=0.1:1e3 "${class[@]}"
search --method mas --save-as mas-head --search lr=1e-6:1e-2 --search strength=1e-4:1e6 --search head_strength=0.1:1e3 "${class[@]}"
# Heads whose moments follow the features.
search --method ewc,mas,sgd --scenario class --head compensated
search --method efc-paper --search lr=1e-6:1e-2 --search beta=1e-5:1e3 --search head_beta=0.1:1e3 --search normalise=none,neuron \
  --scenario class --head compensated
search --method efc-paper --save-as efc-additive --search lr=1e-6:1e-2 --search beta=1e-3:1e5 --search head_beta=0.1:1e3 \
  --search anchor=1e-3:1e5 --search preservation=running_ewc --search form=additive --scenario class --head compensated
search --method ewc,mas,sgd --scenario class --head input_compensated
search --method efc-paper --search lr=1e-6:1e-2 --search beta=1e-5:1e3 --search head_beta=0.1:1e3 --search normalise=none,neuron \
  --scenario class --head input_compensated
}

remembering() { # EFC and its rivals with the same memory; natural steps go without gamma, which they do not stand
for head in least_squares zero input_compensated compensated analytic; do
  search --method efc "${gamma[@]}" --scenario class --head $head
  search --method activity "${pull[@]}" --scenario class --head $head
  search --method activity_ewc "${both[@]}" --scenario class --head $head
done
for head in zero least_squares; do
  search --method efc --save-as efc-natural "${pull[@]}" --search mu=1:1e3 --set efc.step=natural --set efc.beta=0 --scenario class --head $head
  search --method activity --save-as activity-natural "${pull[@]}" --search mu=1:1e3 --set activity.step=natural --scenario class --head $head
  search --method efc "${gamma[@]}" --scenario task --head $head
  search --method activity "${pull[@]}" --scenario task --head $head
  search --method activity_ewc "${both[@]}" --scenario task --head $head
done
# The new head for the others, so that everyone's best head is a fair one.
search --method derpp "${rate[@]}" --search alpha=1e-2:1e2 --search beta=1e-2:1e2 --scenario class --head zero
search --method derpp "${rate[@]}" --search alpha=1e-2:1e2 --search beta=1e-2:1e2 --scenario class --head compensated
search --method derpp "${rate[@]}" --search alpha=1e-2:1e2 --search beta=1e-2:1e2 --scenario class --head input_compensated
search --method derpp "${rate[@]}" --search alpha=1e-2:1e2 --search beta=1e-2:1e2 --scenario task --head zero
for scenario in class task; do
  search --method sgd,frozen "${rate[@]}" --scenario $scenario --head zero
  search --method ewc "${rate[@]}" --search strength=1e-1:1e9 --scenario $scenario --head zero
  search --method online_ewc "${rate[@]}" --search strength=1e-2:1e8 --scenario $scenario --head zero
  search --method si,mas "${rate[@]}" --search strength=1e-4:1e6 --scenario $scenario --head zero
done
}

plain() { # the circumstances of the other searches
  echo "--method $1 --set $1.inputs=raw --set $1.drift=trusted --set $1.skip=off --set $1.readout=regression"
}

rivals() { # methods that came later, each with its own numbers and the best of three heads
for head in zero least_squares input_compensated; do
  # shellcheck disable=SC2046
  {
  search $(plain kfac) "${rate[@]}" --search strength=1e-1:1e9 --scenario class --head $head
  search $(plain ncl) --search lr=1e-4:1e0 --search prior=1e-6:1e1 --scenario class --head $head
  search $(plain owm) "${rate[@]}" --search alpha=1e-3:1e3 --scenario class --head $head
  search $(plain gpm) "${rate[@]}" --search slack=1e-4:3e-1 --scenario class --head $head
  search $(plain lwf) "${rate[@]}" --search distil=1e-2:1e3 --scenario class --head $head
  }
done
search --method slda --search shrinkage=1e-6:1e0 --scenario class --head analytic
for features in relu fourier; do
  search --method analytic --save-as random-$features --set analytic.width=2000 --set analytic.features=$features \
    --search ridge=1e-9:1e1 --search bandwidth=3e-2:3e0 --scenario class --head analytic
done
# shellcheck disable=SC2046
{
search $(plain kfac) "${rate[@]}" --search strength=1e-1:1e9 --scenario task --head zero
search $(plain ncl) --search lr=1e-4:1e0 --search prior=1e-6:1e1 --scenario task --head zero
search $(plain owm) "${rate[@]}" --search alpha=1e-3:1e3 --scenario task --head zero
search $(plain gpm) "${rate[@]}" --search slack=1e-4:3e-1 --scenario task --head zero
search $(plain lwf) "${rate[@]}" --search distil=1e-2:1e3 --scenario task --head zero
search --method slda --search shrinkage=1e-6:1e0 --scenario task --head analytic
}
}

wide() {
search --method efc "${gamma[@]}" --scenario class --head least_squares
search --method efc "${gamma[@]}" --scenario class --head input_compensated
search --method sgd "${rate[@]}" --scenario class --head compensated
search --method frozen "${rate[@]}" --scenario class --head analytic
search --method frozen --save-as untrained --search ridge=1e-8:1e1 --set frozen.lr=0 --scenario class --head analytic
search --method analytic --head analytic --scenario class
search --method joint --head random --scenario class --search lr=1e-6:1e-1 --trials 12 --finalists 2
for head in least_squares input_compensated; do
  search --method activity "${pull[@]}" --scenario class --head $head
done
}

only() { [ "${ONLY:-$1}" = "$1" ]; }
case $column in
  *-wide) wide ;;
  digits) if only remembering; then remembering; fi; if only rivals; then rivals; fi ;;
  *) if only before; then before; fi; if only remembering; then remembering; fi; if only rivals; then rivals; fi ;;
esac
if [ "${PART:-}" = 0 ]; then echo "$part"; fi
