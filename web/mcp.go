package web

// MCPPath is where the Model Context Protocol is spoken.
const MCPPath = "/mcp"
