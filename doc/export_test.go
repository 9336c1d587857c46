package doc

// DiffText is what turns a whole new text into operations.
var DiffText = diffText
