package completion

import (
	"fmt"
	"strings"
)

// Hidden is the command that the scripts call, with the line up to the cursor and the
// characters at which the shell breaks words.
const Hidden = "__complete"

// Script returns the script for a shell.
func Script(shell string) (string, error) {
	switch shell {
	case "bash":
		return bash, nil
	case "zsh":
		return zsh, nil
	case "fish":
		return fish, nil
	}
	return "", fmt.Errorf("no completion for %.40q: bash, zsh and fish have one", shell)
}

// Shells lists the shells.
func Shells() []string { return strings.Fields("bash zsh fish") }

const bash = `# Completion of ustack for bash:  source <(ustack completion bash)
_ustack() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == :files ]]; then
			compopt -o default 2>/dev/null
		else
			COMPREPLY+=("${line%%$'\t'*}")
		fi
	done < <("${COMP_WORDS[0]}" __complete "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
	[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[:=] ]] || compopt -o nospace 2>/dev/null
}
complete -F _ustack ustack
`

const zsh = `#compdef ustack
# Completion of ustack for zsh:  source <(ustack completion zsh)
_ustack() {
	local line word help
	local -a words_ helps
	while IFS= read -r line; do
		if [[ $line == :files ]]; then
			_files
			continue
		fi
		word=${line%%$'\t'*}
		help=$word
		[[ $line != *$'\t'* ]] || help="$word  -- ${line#*$'\t'}"
		words_+=("$word")
		helps+=("$help")
	done < <("${words[1]}" __complete "${(j: :)words[1,CURRENT]}" "" 2>/dev/null)
	(( $#words_ )) && compadd -l -d helps -a words_
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
	_ustack "$@"
else
	compdef _ustack ustack
fi
`

const fish = `# Completion of ustack for fish:  ustack completion fish | source
function __ustack_complete
	set -l line (commandline --cut-at-cursor --current-process)
	for one in (ustack __complete "$line" "" 2>/dev/null)
		if test "$one" = ":files"
			__fish_complete_path (commandline --current-token)
		else
			printf '%s\n' "$one"
		end
	end
end
complete --command ustack --no-files --arguments "(__ustack_complete)"
`
