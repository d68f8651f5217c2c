// Package borders holds the test that keeps the packages' borders: who may
// import whom. CONTRIBUTING.md draws the same map for people.
package borders
