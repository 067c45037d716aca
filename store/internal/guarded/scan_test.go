package guarded_test

import (
	"strings"
	"testing"

	"github.com/watermill-once/watermill-once/store/internal/guarded"
)

// What a query is to a database: allowed, refused, or a ROLLBACK TO.
const (
	allowed  = "allowed"
	refused  = "refused"
	forgives = "forgives"
)

func verdictOf(r guarded.Rules, query string) string {
	switch v := r.Judge(query); {
	case v.Refused != "" && v.Why != "":
		return refused
	case v.Refused != "" || v.Why != "":
		return "half a verdict"
	case v.RollbackTo:
		return forgives
	default:
		return allowed
	}
}

// judgements is a table of queries by database: PostgreSQL, MySQL, SQLite.
var judgements = []struct{ query, postgres, mysql, sqlite string }{
	// Plain statements.
	{"", allowed, allowed, allowed},
	{" ;; \n ; ", allowed, allowed, allowed},
	{"SELECT 1", allowed, allowed, allowed},
	{"(SELECT 1)", allowed, allowed, allowed},
	{"((SELECT 1) UNION (SELECT 2)) ORDER BY 1", allowed, allowed, allowed},
	{"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", allowed, allowed, allowed},
	{"INSERT INTO commit VALUES ('a')", allowed, allowed, allowed},
	{"UPDATE t SET rollback = 1, commit = 2", allowed, allowed, allowed},
	{"SELECT 1; SELECT 2", allowed, allowed, allowed},
	{"TABLE t", allowed, allowed, allowed},
	{"VALUES (1)", allowed, allowed, allowed},
	{"CALL p()", allowed, allowed, allowed},
	{"EXPLAIN SELECT 1", allowed, allowed, allowed},

	// The end, in all its forms.
	{"COMMIT", refused, refused, refused},
	{"commit", refused, refused, refused},
	{"  \t\r\n CoMmIt work ", refused, refused, refused},
	{"COMMIT;", refused, refused, refused},
	{";;COMMIT", refused, refused, refused},
	{"COMMIT AND CHAIN", refused, refused, refused},
	{"COMMIT PREPARED 'x'", refused, refused, refused},
	{"COMMIT/**/", refused, refused, refused},
	{"COMMIT--", refused, refused, refused},
	{"SELECT 1; COMMIT", refused, refused, refused},
	{"SELECT 1;COMMIT;SELECT 2", refused, refused, refused},
	{"SELECT 'a;b'; COMMIT", refused, refused, refused},
	{"ROLLBACK", refused, refused, refused},
	{"ROLLBACK WORK", refused, refused, refused},
	{"ROLLBACK TRANSACTION", refused, refused, refused},
	{"ROLLBACK AND CHAIN", refused, refused, refused},
	{"ROLLBACK; TO", refused, refused, refused},
	{"ABORT", refused, refused, refused},
	{"END", refused, allowed, refused},
	{"END TRANSACTION", refused, allowed, refused},
	{"PREPARE TRANSACTION 'x'", refused, refused, refused},
	{"PREPARE p AS SELECT 1", allowed, allowed, allowed},
	{"BEGIN", refused, refused, refused},
	{"BEGIN IMMEDIATE", refused, refused, refused},
	{"START TRANSACTION", refused, refused, refused},
	{"START TRANSACTION READ ONLY", refused, refused, refused},

	// Savepoints.
	{"SAVEPOINT a", allowed, allowed, allowed},
	{"RELEASE a", allowed, allowed, allowed},
	{"RELEASE SAVEPOINT a", allowed, allowed, allowed},
	{"ROLLBACK TO a", forgives, forgives, forgives},
	{"ROLLBACK TO SAVEPOINT a", forgives, forgives, forgives},
	{"ROLLBACK WORK TO SAVEPOINT x", forgives, forgives, forgives},
	{"ROLLBACK TRANSACTION TO SAVEPOINT x;", forgives, forgives, forgives},
	{"/* undo */ rollback to \"a\"", forgives, forgives, forgives},
	{"ROLLBACK TO a; SELECT 1", allowed, allowed, allowed},
	{"SELECT 1; ROLLBACK TO a", allowed, allowed, allowed},
	{"ROLLBACK TO a; COMMIT", refused, refused, refused},
	{"ROLLBACK TO a; ROLLBACK TO b", allowed, allowed, allowed},

	// Comments.
	{"/* COMMIT */ SELECT 1", allowed, allowed, allowed},
	{"/* ; COMMIT; */ SELECT 1", allowed, allowed, allowed},
	{"-- COMMIT\nSELECT 1", allowed, allowed, allowed},
	{"-- x\nCOMMIT", refused, refused, refused},
	{"/* x */ /* y */ COMMIT", refused, refused, refused},
	{"/* /* x */ COMMIT", allowed, refused, refused},    // still a comment where they nest
	{"/* /* x */ */ COMMIT", refused, refused, refused}, // a syntax error elsewhere
	{"/* /* x */ SELECT 1 */ SELECT 1", allowed, allowed, allowed},
	{"/*", allowed, allowed, allowed},
	{"/*/ COMMIT", allowed, allowed, allowed},
	{"/**/COMMIT/**/", refused, refused, refused},
	{"--\rCOMMIT", refused, allowed, allowed}, // a carriage return ends the comment there
	{"SELECT 5--1; COMMIT", allowed, refused, allowed},
	{"SELECT 5--\t1\n; COMMIT", refused, refused, refused},
	{"SELECT 1--", allowed, allowed, allowed},
	{"# COMMIT\nSELECT 1", refused, allowed, refused},
	{"# x\nCOMMIT", allowed, refused, allowed}, // an operator elsewhere
	{"#COMMIT", refused, allowed, refused},

	// Literals and names.
	{"SELECT '; COMMIT;'", allowed, allowed, allowed},
	{"SELECT ''; COMMIT", refused, refused, refused},
	{"SELECT '''; COMMIT; '", allowed, allowed, allowed},
	{"SELECT ''''; COMMIT; --'", refused, refused, refused},
	{`SELECT "; COMMIT"`, allowed, allowed, allowed},
	{`SELECT """; COMMIT; "`, allowed, allowed, allowed},
	{"SELECT `; COMMIT;`", allowed, allowed, allowed},
	{"SELECT '/*'; COMMIT; SELECT '*/'", refused, refused, refused},
	{"SELECT '--'; COMMIT", refused, refused, refused},
	{`SELECT '\'; COMMIT; --'`, refused, allowed, refused}, // a backslash quotes in MySQL only
	{`SELECT '\\'; COMMIT`, refused, refused, refused},
	{`SELECT '\''; COMMIT; '`, allowed, refused, allowed},
	{"SELECT `\\`; COMMIT; `", refused, refused, refused},
	{"'; COMMIT", allowed, allowed, allowed},
	{`"`, allowed, allowed, allowed},
	{`'\`, allowed, allowed, allowed},

	// PostgreSQL's own.
	{`SELECT E'\'; COMMIT; --'`, allowed, allowed, refused},
	{`SELECT e'\''; COMMIT`, refused, refused, allowed},
	{`SELECT E'a''\''; COMMIT; SELECT ''`, refused, refused, allowed},
	{"SELECT E'a'\n'\\''; COMMIT; SELECT ''", refused, refused, allowed},
	{"SELECT E'a' -- x\n -- y\n'\\''; COMMIT; SELECT ''", refused, refused, allowed},
	{"SELECT E'a'\n -- y\n'\\''; COMMIT; SELECT ''", refused, refused, allowed},
	{"SELECT E'a' '\\'; COMMIT --'", refused, allowed, refused},
	{`SELECT xE'\'; COMMIT; --'`, refused, allowed, refused},
	{"SELECT $$; COMMIT;$$", allowed, refused, refused},
	{"SELECT $$;$$; COMMIT", refused, refused, refused},
	{"SELECT $a$ $b$ ; COMMIT; $a$", allowed, refused, refused},
	{"SELECT $a$ $a$ ; COMMIT", refused, refused, refused},
	{"SELECT $1; COMMIT; SELECT $1", refused, refused, refused},
	{"SELECT $1$; COMMIT; $1$", refused, refused, refused},
	{"SELECT a$b$; COMMIT; SELECT c$b$", refused, refused, refused},
	{"SELECT 1$a$'$a$; COMMIT; --'", refused, allowed, allowed},
	{"DO $$ BEGIN PERFORM 1; END $$", allowed, allowed, refused},
	{"$", allowed, allowed, allowed},
	{"COPY t FROM STDIN", allowed, allowed, allowed},

	// SQLite's own.
	{"SELECT [; COMMIT;]", refused, refused, allowed},
	{"SELECT []; COMMIT", refused, refused, refused},
	{"\ufeffCOMMIT", allowed, allowed, refused}, // white space there
	{"\ufeff\ufeffCOMMIT\ufeff;", allowed, allowed, refused},
	{"INSERT OR ROLLBACK INTO t VALUES (1)", allowed, allowed, allowed},

	// What commits in MySQL and MariaDB.
	{"CREATE TABLE t (a INT)", allowed, refused, allowed},
	{"CREATE TEMPORARY TABLE t (a INT)", allowed, allowed, allowed},
	{"CREATE OR REPLACE TEMPORARY TABLE t (a INT)", allowed, allowed, allowed},
	{"CREATE OR REPLACE TABLE temporary (a INT)", allowed, refused, allowed},
	{"CREATE TABLE temporary (a INT)", allowed, refused, allowed},
	{"CREATE UNIQUE INDEX temporary ON t (a)", allowed, refused, allowed},
	{"CREATE DEFINER = root TRIGGER x", allowed, refused, allowed},
	{"DROP TABLE t", allowed, refused, allowed},
	{"DROP TEMPORARY TABLE t", allowed, allowed, allowed},
	{"DROP TABLE IF EXISTS temporary", allowed, refused, allowed},
	{"ALTER TABLE t ADD b INT", allowed, refused, allowed},
	{"TRUNCATE t", allowed, refused, allowed},
	{"RENAME TABLE t TO u", allowed, refused, allowed},
	{"GRANT SELECT ON t TO u", allowed, refused, allowed},
	{"REVOKE SELECT ON t FROM u", allowed, refused, allowed},
	{"LOCK TABLES t READ", allowed, refused, allowed},
	{"UNLOCK TABLES", allowed, refused, allowed},
	{"ANALYZE TABLE t", allowed, refused, allowed},
	{"ANALYZE FORMAT=JSON SELECT 1", allowed, allowed, allowed},
	{"ANALYZE UPDATE t SET a = 1", allowed, allowed, allowed},
	{"CHECK TABLE t", allowed, refused, allowed},
	{"CHECKSUM TABLE t", allowed, allowed, allowed},
	{"OPTIMIZE TABLE t", allowed, refused, allowed},
	{"REPAIR TABLE t", allowed, refused, allowed},
	{"FLUSH TABLES", allowed, refused, allowed},
	{"RESET QUERY CACHE", allowed, refused, allowed},
	{"INSTALL SONAME 'x'", allowed, refused, allowed},
	{"BACKUP STAGE START", allowed, refused, allowed},
	{"CACHE INDEX t IN c", allowed, refused, allowed},
	{"LOAD INDEX INTO CACHE t", allowed, refused, allowed},
	{"LOAD DATA INFILE 'x' INTO TABLE t", allowed, allowed, allowed},
	{"START SLAVE", allowed, refused, allowed},
	{"STOP REPLICA", allowed, refused, allowed},
	{"CHANGE MASTER TO x", allowed, refused, allowed},
	{"XA START 'x'", allowed, refused, allowed},
	{"SET autocommit = 0", allowed, refused, allowed},
	{"SET a=1, autocommit=0", allowed, refused, allowed},
	{"SET @x = 1, @y = 2, @z = 3, @@session.autocommit = ON", allowed, refused, allowed},
	{"SET @@autocommit=0", allowed, refused, allowed},
	{"SET `autocommit` = 0", allowed, refused, allowed},
	{"SET @@`autocommit` = 0", allowed, refused, allowed},
	{"SET SESSION autocommit=1", allowed, refused, allowed},
	{"SET PASSWORD = 'x'", allowed, refused, allowed},
	{"SET @password = 'autocommit'", allowed, refused, allowed}, // refused needlessly, and no harm
	{"SET x = 'autocommit'", allowed, allowed, allowed},
	{"SET lock_timeout = 5", allowed, allowed, allowed},
	{"SET NAMES utf8mb4", allowed, allowed, allowed},
	{"SET TRANSACTION READ ONLY", allowed, allowed, allowed},
	{"SET STATEMENT max_statement_time=1 FOR SELECT 1", allowed, allowed, allowed},
	{"SET STATEMENT max_statement_time=1 FOR COMMIT", allowed, refused, allowed},
	{"SET STATEMENT a=1, b=2 FOR CREATE TABLE t (a INT)", allowed, refused, allowed},
	{"SET STATEMENT a=1 FOR SET STATEMENT b=1 FOR DROP TABLE t", allowed, refused, allowed},
	{"SET STATEMENT a=1 FOR", allowed, allowed, allowed},

	// Executable comments, which some servers do not execute.
	{"/*! COMMIT */", allowed, refused, allowed},
	{"/*!COMMIT*/", allowed, refused, allowed},
	{"/*!50000 COMMIT */", allowed, refused, allowed},
	{"/*!40101 SET autocommit=0 */", allowed, refused, allowed},
	{"/*!40101 SET NAMES utf8 */", allowed, allowed, allowed},
	{"/*M! COMMIT */", allowed, refused, allowed},
	{"/*M!100101 COMMIT */", allowed, refused, allowed},
	{"/*M!100101 SET STATEMENT a=1 FOR */ COMMIT", refused, refused, refused},
	{"/*M!100101 SET STATEMENT a=1 FOR */ INSERT INTO t VALUES (1)", allowed, allowed, allowed},
	{"/*!999999 x */ COMMIT", refused, refused, refused},
	{"/*!999999 x */ /*!50701 COMMIT */", allowed, refused, allowed},
	{"/*!999999 a b c d e f */ /*!50701 COMMIT */", allowed, refused, allowed},
	{"ROLLBACK /*!999999 TO a */", refused, refused, refused},
	{"ROLLBACK /*!50000 TO */ a", refused, forgives, refused},
	{"/*! ROLLBACK */ /*M! TO */ a", allowed, refused, allowed},
	{"/*M! ROLLBACK TO a */", allowed, allowed, allowed}, // no more than allowed: it may be nothing at all
	{"/*!50000 SELECT 1; COMMIT */", allowed, refused, allowed},
	{"/*!50000 SELECT /* inner */ 1 */; COMMIT", refused, refused, refused},
	{"/*!999999 ' */ COMMIT -- '", refused, refused, refused},
	{"/*!999999 /* */ x */ COMMIT", refused, refused, allowed},
	{"CREATE /*!32302 TEMPORARY */ TABLE t (a INT)", allowed, allowed, allowed},
	{"CREATE /*M! TEMPORARY */ TABLE t (a INT)", allowed, refused, allowed},
	{"SELECT 1 /*!80000 FOR UPDATE SKIP LOCKED */", allowed, allowed, allowed},
	{"SELECT 1 /*!80000 LOCK IN SHARE MODE */", allowed, allowed, allowed},
	{"INSERT /*!80000 HIGH_PRIORITY */ INTO t VALUES (1)", allowed, allowed, allowed},
	{"SELECT /*+ NO_INDEX(t) */ 1", allowed, allowed, allowed},
	{"/*!", allowed, allowed, allowed},
	{"*/ COMMIT", refused, refused, refused},

	// Compound statements outside of a procedure, which MariaDB has.
	{"BEGIN NOT ATOMIC COMMIT; END", refused, refused, refused},
	{"x: BEGIN NOT ATOMIC SELECT 1; END", refused, refused, refused},
	{"IF 1 THEN COMMIT; END IF", refused, refused, refused},
	{"IF 1 THEN SELECT 1; ELSE DROP TABLE t; END IF", refused, refused, refused},
	{"WHILE 1 = 1 AND 2 = 2 DO COMMIT; END WHILE", refused, refused, refused},
	{"x: LOOP COMMIT; END LOOP", refused, refused, refused},
	{"REPEAT ROLLBACK; UNTIL 1 END REPEAT", allowed, refused, allowed},
	{"FOR i IN 1..2 DO SET autocommit = 0; END FOR", refused, refused, refused},
	{"CASE 1 WHEN 1 THEN TRUNCATE t; END CASE", refused, refused, refused},
	{"IF 1 THEN SELECT 1; END IF", refused, allowed, refused},
	{"SELECT REPEAT('commit', 3)", allowed, allowed, allowed},
	{"SELECT CASE WHEN 1 THEN 2 END", allowed, allowed, allowed},
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, j := range judgements {
		for _, d := range []struct {
			name  string
			rules guarded.Rules
			want  string
		}{
			{"postgres", postgresRules, j.postgres}, {"mysql", mysqlRules, j.mysql}, {"sqlite", sqliteRules, j.sqlite},
		} {
			if got := verdictOf(d.rules, j.query); got != d.want {
				t.Errorf("%s: %q is %s, want %s", d.name, j.query, got, d.want)
			}
		}
	}
}

func TestJudgeNamesTheStatement(t *testing.T) {
	t.Parallel()
	v := mysqlRules.Judge("SELECT 1; create  /* x */ table t (a INT)")
	if v.Refused != "CREATE TABLE" || !strings.Contains(v.Why, "commits before it") {
		t.Errorf("%+v", v)
	}
	if v := (guarded.Rules{}).Judge("copy t FROM STDIN"); !v.Copy {
		t.Errorf("%+v", v)
	}
}
