#!/usr/bin/env bash
# Plans four language models as if they were one: what several have is planned once. Begun again, it goes on.
#
#   examples/zoo.sh [FOLDER]    where the plans' database and the page go (default: ./zoo)
#
# STITCH names the program `stitch` (default: the installed one, else the release build's). No GPU is needed: plans are
# predicted for an H100 and compiled; --effort quick verifies them, too.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
stitch=${STITCH:-$(command -v stitch || echo "$root/build/release/bin/stitch")}
folder=${1:-zoo}
mkdir -p "$folder"

models=()
for name in distilbert bert_base bert_base_f16 gpt2; do
  models+=("$root/bench/models/onnx/$name.onnx")
done
"$stitch" zoo "${models[@]}" --target h100 --effort none --budget 40s --quiet --db "$folder/plans.db" --html "$folder/zoo.html"
echo "the page: $folder/zoo.html; a server of these plans: stitchd --db $folder/plans.db"
