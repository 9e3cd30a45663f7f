#!/usr/bin/env bash
# Runs the completion scripts in their shells.
set -euo pipefail
callboard=$1

expect() {
  local shell=$1 wanted=$2 got=$3
  [[ $got == *"$wanted"* ]] && return
  printf '%s: wanted "%s" in "%s"\n' "$shell" "$wanted" "$got" >&2
  exit 1
}

bash_words() {
  bash -c 'source <("$0" completion bash); COMP_WORDS=(callboard "$@"); COMP_CWORD=$#; _callboard
           printf "%s " "${COMPREPLY[@]}"' "$callboard" "$@"
}
expect bash "agents backfill completion db dev explain jobs logs pause preview queue queue-cancel queue-status resume trigger version watch" "$(bash_words "")"
expect bash "queue queue-cancel queue-status" "$(bash_words q)"
expect bash "--queue.max_size" "$(bash_words dev --queue.m)"
expect bash "--follow" "$(bash_words logs --fo)"
expect bash "--dry_run" "$(bash_words backfill --dr)"
expect bash "--retry_on" "$(bash_words queue --re)"
expect bash "bash zsh fish" "$(bash_words completion "")"
expect bash "checkpoint export get restore stats verify" "$(bash_words db "")"
expect bash "--accept_loss" "$(bash_words db restore --acc)"

zsh_words() {
  zsh -f -c 'compdef() { :; }; _files() { :; }
             _describe() { print -r -- ${(P)2}; }; compadd() { shift; print -r -- "$@"; }
             source <("$0" completion zsh); words=(callboard "$@"); CURRENT=$#words; _callboard' \
    "$callboard" "$@"
}
expect zsh "queue-status:Show the state of the queue" "$(zsh_words q)"
expect zsh "--queue.max_size" "$(zsh_words dev --queue.m)"
expect zsh "watch:Show tasks and their changes" "$(zsh_words w)"
expect zsh "--dispatch" "$(zsh_words logs --di)"
expect zsh "--time_zone" "$(zsh_words preview --ti)"
expect zsh "checkpoint export get restore stats verify" "$(zsh_words db "")"
expect zsh "--accept_loss" "$(zsh_words db restore --acc)"

fish_words() {
  # A separate home, because fish writes there.
  HOME=$TEST_TMPDIR fish --no-config -c "$callboard completion fish | source; complete -C '$1'"
}
expect fish "queue-status" "$(fish_words 'callboard q')"
expect fish "--queue.max_size" "$(fish_words 'callboard dev --queue.m')"
expect fish "watch" "$(fish_words 'callboard w')"
expect fish "--dispatch" "$(fish_words 'callboard logs --di')"
expect fish "--trigger_id" "$(fish_words 'callboard trigger --tr')"
expect fish "zsh" "$(fish_words 'callboard completion ')"
expect fish "restore" "$(fish_words 'callboard db re')"
expect fish "--accept_loss" "$(fish_words 'callboard db restore --acc')"
