// Package config reads the environment: once, at boot, and nobody else does. A service declares a struct whose fields
// carry envconfig tags, embeds the blocks it shares with other services (HTTP, Postgres, Logging, Tenancy), fills it
// with defaults and calls Load. The rules are the contract's (section 1): one strict boolean parser, numbers without
// blanks or units, a blank boolean or number means the default, strings are taken as they are.
//
// A field may carry these tags beside `envconfig:"NAME"`:
//
//	floor:"1"           a smaller number is raised to it; LogEffective warns
//	range:"1..65535"    a number outside ends the boot
//	chain:"A,B"         with ignored:"true": takes the first of the variables that is not blank
//
// A block that implements `Validate() error` is asked after its fields are set. Every error is one line that names the
// variable and the value, without the prefix that the caller prints before it.
package config
