module queen.internal/sql

go 1.26.0
