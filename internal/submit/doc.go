// Package submit takes one order to a verdict.
package submit
