"""`semantica completions`: the script that completes commands in bash, zsh or fish. The script calls
`semantica completions -- WORD …` for the candidates, so that it fits every version; `candidates.py` finds them."""

from semantica_daemon.cli.candidates import candidates
from semantica_daemon.cli.command import Any, Command, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed

BASH = """\
# Completion of `semantica` for bash: eval "$(semantica completions bash)" in ~/.bashrc
_semantica() {
    local line quoted quote='' lines=() word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    case $word in
        [\\"\\']*) quote=${word:0:1} word=${word:1} ;;
        *) IFS= read word <<< "$word" ;; # removes the backslashes
    esac
    mapfile -t lines < <(semantica completions -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$word" 2> /dev/null)
    case ${lines[0]} in
        :files) compopt -o default ;;
        :command*)
            if declare -F _command_offset > /dev/null; then
                _command_offset $((COMP_CWORD - ${lines[0]#:command }))
            else
                compopt -o default
            fi ;;
        *)
            for line in "${lines[@]}"; do
                line=${line%%$'\\t'*}
                printf -v quoted %q "$line"
                if [[ -z $quote ]]; then
                    COMPREPLY+=("$quoted")
                elif [[ ${quoted//'\\ '/ } == "$line" ]]; then # nothing in it that quotes cannot hold
                    COMPREPLY+=("$line")
                fi
            done ;;
    esac
}
complete -F _semantica semantica
"""

ZSH = """\
#compdef semantica
# Completion of `semantica` for zsh: eval "$(semantica completions zsh)" in ~/.zshrc, after compinit
_semantica() {
    local line
    local -a lines found
    lines=("${(@f)$(semantica completions -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}")
    case $lines[1] in
        :files) _files ;;
        :command*)
            local skipped=$((CURRENT - 1 - ${lines[1]#:command }))
            shift $skipped words
            ((CURRENT -= skipped))
            _normal ;;
        ?*)
            for line in $lines; do found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}"); done
            _describe semantica found ;;
    esac
}
compdef _semantica semantica
"""

FISH = """\
# Completion of `semantica` for fish: semantica completions fish > ~/.config/fish/completions/semantica.fish
function __semantica_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l word (string unescape -- $words[-1]; or echo -- $words[-1])
    for line in (semantica completions -- $words[2..-2] "$word" 2> /dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case ':command*'
                set -l first (math -1 - (string replace ':command ' '' -- $line))
                complete -C (string join ' ' -- $words[$first..-1])
            case '*'
                echo $line
        end
    end
end
complete -c semantica -f -a '(__semantica_candidates)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def run(arguments: Any, terminal: Terminal) -> None:
    if arguments.command:
        for value, description in candidates(arguments.command, terminal.paths):
            terminal.print(f"{value}\t{description}" if description else value)
    elif arguments.shell:
        terminal.print(SCRIPTS[arguments.shell].rstrip("\n"))
    else:
        raise CommandFailed("completions: for which shell?", "`semantica completions bash`, zsh or fish")


COMMAND = Command(
    "Print a script that completes commands, options, and the names of jobs, queues, tags and schedules.",
    run,
    [Option("shell {bash,zsh,fish}", "the shell that the script is for", nargs="?")],
    """
  semantica completions fish > ~/.config/fish/completions/semantica.fish
  eval "$(semantica completions bash)"              in ~/.bashrc
  eval "$(semantica completions zsh)"               in ~/.zshrc, after compinit""",
    after_dashes=True,
)
