// SPDX-License-Identifier: Apache-2.0

// Package engine answers SQL about recordings, by DuckDB in this process. Importing it gives a program SQL. DuckDB opens no
// file: a table function gives it the columns that a query names, as package segments reads and checks them.
//
// Without cgo, or with the build tag nosql, the package is empty: query.Open says so.
package engine
