"""The rooms of `flights_everywhere.py`: one query into several stores.

stores     the servers, and what is made in them for a pipeline
query      the process of the query, which is killed: into all stores under one decision, or as people do it today
moments    when it is killed
reading    what clients that are not oncelog's find in each store
page       how it ended, as one HTML page
"""
