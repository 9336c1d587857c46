# Completion of cowrite for fish.
function __cowrite_complete
	set -l words (commandline -opc)
	set -l found ($words[1] complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
	if set -q found[1]
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c cowrite -f -a '(__cowrite_complete)'
