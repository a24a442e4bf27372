"""What pages and sites say of the use of their pages: rules of pages, declared uses, TDMRep.

All of it is a leaf.
"""
