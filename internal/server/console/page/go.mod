// This module keeps what npm installs out of the packages of the main module. It has no Go code.
module github.com/outrigger-mcp/outrigger/internal/server/console/page

go 1.26
