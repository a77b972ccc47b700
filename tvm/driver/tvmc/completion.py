"""``tvmc completion``: prints a script that completes commands and options in a shell.

eval "$(tvmc completion bash)"      # in ~/.bashrc; zsh: eval "$(tvmc completion zsh)" after compinit
"""

from __future__ import annotations

import argparse

from .arguments import add_command, register_parser
from .parser import subcommands

_BASH = """\
_tvmc() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in {commands}) command="$word"; break;; esac
  done
  local words=""
  case "$command:$previous" in
{choices}
  esac
  if [ -z "$words" ]; then
    case "$command:$current" in
      :*) words="{top}";;
{options}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _tvmc tvmc tvm
"""


def _options(parser: argparse.ArgumentParser) -> str:
    return " ".join(sorted(o for action in parser._actions for o in action.option_strings))


def script(parser: argparse.ArgumentParser) -> str:
    """Generate the script from the options of all subcommands."""
    commands = subcommands(parser)
    choices, options = [], []
    for name, sub in commands.items():
        options.append(f'      {name}:-*) words="{_options(sub)}";;')
        for action in sub._actions:
            if action.choices and action.option_strings:
                patterns = "|".join(f"{name}:{o}" for o in action.option_strings)
                choices.append(f'    {patterns}) words="{" ".join(str(c) for c in action.choices)}";;')
            elif action.choices:
                options.append(f'      {name}:*) words="{" ".join(str(c) for c in action.choices)}";;')
    return _BASH.format(
        commands="|".join(commands),
        choices="\n".join(choices),
        options="\n".join(options),
        top=" ".join(commands) + " " + _options(parser),
    )


@register_parser
def add_completion_parser(subparsers, main_parser, json_params) -> None:
    """Add the subcommand ``completion``."""
    parser = add_command(
        subparsers,
        "completion",
        usage="tvmc completion SHELL",
        epilog='Use: eval "$(tvmc completion bash)" in ~/.bashrc, or with zsh in ~/.zshrc.',
    )
    parser.add_argument("shell", choices=["bash", "zsh"], help="the shell")
    parser.set_defaults(func=lambda args: drive_completion(args, main_parser))


def drive_completion(args, main_parser: argparse.ArgumentParser) -> int:
    """Print the script."""
    if args.shell == "zsh":
        print("autoload -Uz bashcompinit && bashcompinit")
    print(script(main_parser), end="")
    return 0


__all__ = ["add_completion_parser", "drive_completion", "script"]
