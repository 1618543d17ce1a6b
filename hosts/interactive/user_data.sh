#!/bin/bash
# Runs once, at a development box's first boot: leaves one command, `torchlift-train`, which runs what is deployed then.
set -euo pipefail
command="${TORCHLIFT_ROOT:-}/usr/local/bin/torchlift-train"
# cloud-init's mark of having run this: a box that is reset in the middle runs it again at its next boot.
rm -f "${TORCHLIFT_ROOT:-}/var/lib/cloud/instance/sem/config_scripts_user"
[ ! -e "$command" ] || exit 0
cat >"$command.new" <<'TORCHLIFT_TRAIN'
#!/bin/bash
# sudo torchlift-train [OPTIONS OF THE TRAINING]: see hosts/interactive/train.sh, which the deployment brings.
set -euo pipefail
home="${TORCHLIFT_HOME:-/opt/torchlift}"
mkdir -p "$home"
# One at a time until the training begins.
exec 9<"$home"
flock 9
aws ssm get-parameter --region @REGION@ --name @PARAMETER@ --query Parameter.Value --output text >"$home/box.env"
set -a
. "$home/box.env"
set +a
# A folder for each version: edited code stays as it is until another version is deployed.
export TORCHLIFT_HOME="$home/$TORCHLIFT_HASH" TORCHLIFT_WORK="${TORCHLIFT_WORK:-$home/work}"
if [ ! -d "$TORCHLIFT_HOME" ]; then
  rm -rf "$home/.new"
  mkdir "$home/.new"
  aws s3 cp --only-show-errors "$TORCHLIFT_SOURCE" "$home/source.zip"
  python3 -m zipfile -e "$home/source.zip" "$home/.new"
  mv "$home/.new" "$TORCHLIFT_HOME"
fi
flock --unlock 9
exec bash "$TORCHLIFT_HOME/hosts/interactive/train.sh" "$@" 9<&-
TORCHLIFT_TRAIN
chmod 0755 "$command.new"
echo 'sudo torchlift-train: fetches the inputs and runs the training of this deployment; options go to the training' \
  >"${TORCHLIFT_ROOT:-}/etc/motd"
# Last, and whole: where it is, all is done.
mv "$command.new" "$command"
