# Completion of cowrite for zsh.
_cowrite() {
	local line
	local -a found
	while IFS= read -r line; do
		found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done < <("$words[1]" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( $#found )); then
		_describe cowrite found
	else
		_files
	fi
}
compdef _cowrite cowrite
