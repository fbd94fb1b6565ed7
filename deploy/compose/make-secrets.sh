#!/bin/sh
# Make the secrets that compose.yaml names, in a folder that only its owner can enter. Existing files stay.
set -eu
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 700 "$folder"
for name in superuser_password owner_password; do
  [ -e "$folder/$name" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' > "$folder/$name"
done
[ -e "$folder/database_url" ] || printf 'postgresql://assent:%s@database/assent' "$(cat "$folder/owner_password")" > "$folder/database_url"
# A container's user reads its file under another id: the folder keeps out the users of this machine.
chmod 644 "$folder"/*
