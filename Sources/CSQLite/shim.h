#ifndef ONYM_CSQLITE_SHIM_H
#define ONYM_CSQLITE_SHIM_H

#include <sqlite3.h>

// SQLITE_TRANSIENT is a cast in a macro: SQLite copies what it is given.

static inline int onym_sqlite3_bind_text(sqlite3_stmt *statement, int index, const char *text, sqlite3_uint64 count) {
    return sqlite3_bind_text64(statement, index, text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static inline int onym_sqlite3_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
    // A pointer to nothing would bind NULL where an empty blob is meant.
    return count == 0 ? sqlite3_bind_zeroblob(statement, index, 0)
                      : sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_TRANSIENT);
}

// sqlite3_db_config takes a variable number of arguments.
static inline int onym_sqlite3_keep_log(sqlite3 *database) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}

// sqlite3_config takes a variable number of arguments. SQLite counts its memory behind one lock for all threads, and nobody asks.
static inline int onym_sqlite3_count_no_memory(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

// A program that opens a database beside SQLite and closes it loses SQLite's locks, so a copy reads through SQLite's own file.
// Its functions are pointers in a structure, behind a pointer without a type.
static inline int onym_sqlite3_read_file(sqlite3 *database, void *bytes, int count, sqlite3_int64 offset) {
    sqlite3_file *file = 0;
    int code = sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code != SQLITE_OK) return code;
    return file->pMethods->xRead(file, bytes, count, offset);
}

static inline int onym_sqlite3_file_size(sqlite3 *database, sqlite3_int64 *size) {
    sqlite3_file *file = 0;
    int code = sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code != SQLITE_OK) return code;
    return file->pMethods->xFileSize(file, size);
}

#endif
