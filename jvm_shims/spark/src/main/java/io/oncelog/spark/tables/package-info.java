/**
 * Spark's own parquet writer, with the field ids that an Iceberg table gives to the elements of its lists and to the
 * keys and values of its maps. Python says which ids (oncelog_tables/field_ids.py).
 */
package io.oncelog.spark.tables;
