# SPDX-License-Identifier: Apache-2.0
"""Reads files of packets by DuckDB or pyarrow, and writes a JSON object for each packet, in the order of time."""
import glob
import json
import sys

engine, pattern = sys.argv[1:]
if engine == "duckdb":
    import duckdb

    kind = duckdb.sql(f"SELECT typeof(t) FROM '{pattern}' LIMIT 1").fetchall()
    assert kind == [("TIMESTAMPTZ_NS",)], kind
    columns = duckdb.sql(f"SELECT * REPLACE (epoch_ns(t) AS t) FROM '{pattern}' ORDER BY t, pos")
    names = columns.columns
    rows = [dict(zip(names, row)) for row in columns.fetchall()]
else:
    import pyarrow
    import pyarrow.parquet

    tables = [pyarrow.parquet.ParquetFile(f, page_checksum_verification=True).read() for f in sorted(glob.glob(pattern))]
    table = pyarrow.concat_tables(tables)
    assert str(table.schema.field("t").type) == "timestamp[ns, tz=UTC]", table.schema
    at = table.column("t").cast(pyarrow.int64())
    table = table.set_column(table.column_names.index("t"), "t", at)
    rows = table.sort_by([("t", "ascending"), ("pos", "ascending")]).to_pylist()
for row in rows:
    print(json.dumps(row))
