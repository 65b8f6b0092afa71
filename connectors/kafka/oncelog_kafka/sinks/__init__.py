"""The driver's side of the exactly-once sink, for foreachBatch and by format.

batch_sink      foreachBatch; data_plane and jobs run the tasks
steps           by format: the steps that the jar asks for; stepwise takes a run up in another process
target          one attempt at a batch
participant_check, partition_checks    what must hold right before the decision
finishing       sends the commits of a decided batch
history, group_check, data_topics      what is refused before the batch is written
"""
