module queen.internal/services/maintainer

go 1.26.0

require (
	queen.internal/pkg v0.0.0
	queen.internal/sql v0.0.0
)

replace (
	queen.internal/pkg => ../../pkg
	queen.internal/sql => ../../sql
)
