// Package borders holds the test that keeps the packages' borders: who may
// import whom. docs/architecture.md draws the same map for people.
package borders
