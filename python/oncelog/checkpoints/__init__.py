"""The checkpoint of a streaming query, for its operators: what it says, whether it fits, and how it is moved.

positions   what a source's offset means: the log's, oncelog's on Kafka, Spark's own on Kafka
folder      reads a checkpoint's folder; writes nothing
places      logs and clusters, as far as positions can be compared with them
standing    what ledgers know of the query
checking    compares the three
writing     makes a new folder, whole or not at all
moving      what is in it: another topic, another log, the topic that was created again

Nothing here needs Spark. A checkpoint is never changed in place.
"""
