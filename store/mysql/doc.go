// Package mysql is the store's dialect for MariaDB 10.6 and later and for
// MySQL 8, over a pool of go-sql-driver (driver name "mysql"). It is tested on
// MariaDB; MySQL itself was not to be had, but everything that is sent to it is
// also tested, on MariaDB (see [Plain]).
//
// On MariaDB, BEGIN and the claim travel in one round trip.
package mysql
